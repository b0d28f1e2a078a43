# node_pattern jct
=obj= 1.0
s[0] 1
w[0,0] 1
z[0,8,0] 7
