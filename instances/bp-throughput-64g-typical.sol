# node_pattern throughput
=obj= 1.4050415945356307
s[1] 1
s[3] 1
w[0,0] 1
w[1,0] 1
w[2,0] 1
w[3,0] 1
w[4,0] 1
w[5,0] 1
w[6,0] 1
w[7,0] 1
