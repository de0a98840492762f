
!
a_Arg*
T0*
index†ç

yNega*
T0
'
r_Retvala*
T0*
index†ç