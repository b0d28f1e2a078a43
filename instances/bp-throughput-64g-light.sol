# node_pattern throughput
=obj= -2.5403782309351683
s[0] 1
s[1] 1
s[2] 1
w[0,0] 1
w[1,0] 1
w[2,0] 1
w[3,0] 1
w[4,0] 1
w[7,0] 1
