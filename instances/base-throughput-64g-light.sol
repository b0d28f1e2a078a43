# node_pattern throughput
=obj= 1.710158710574865
s[0] 1
s[1] 1
w[1,0] 1
w[2,4] 1
w[6,0] 1
z[0,8,0] 5
z[0,4,0] 1
