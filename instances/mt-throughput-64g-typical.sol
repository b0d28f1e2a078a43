# node_pattern throughput
=obj= 1.3
s[10] 1
s[14] 1
w[0,0] 1
w[1,0] 1
w[2,0] 1
w[3,0] 1
w[4,0] 1
w[5,0] 1
w[6,0] 1
w[7,0] 1
