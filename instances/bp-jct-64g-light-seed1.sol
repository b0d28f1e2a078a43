# node_pattern jct
=obj= -1.1149650383512877
s[0] 1
s[1] 1
w[1,0] 1
w[2,0] 1
