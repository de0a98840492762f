def applicable(): return []
def not_applicable(): return []
