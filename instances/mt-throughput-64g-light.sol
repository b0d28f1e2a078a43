# node_pattern throughput
=obj= 2.429751016419044
s[0] 1
s[1] 1
s[2] 1
s[3] 1
w[0,6] 1
w[1,0] 1
w[2,0] 1
w[4,0] 1
z[0,8,0] 4
z[0,6,0] 1
