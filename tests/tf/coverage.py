def stale(): return []
def write(*a): pass
