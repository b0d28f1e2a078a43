# node_pattern jct
=obj= -1.4977972544971
s[0] 1
s[1] 1
s[2] 1
w[0,0] 1
w[1,0] 1
w[2,0] 1
