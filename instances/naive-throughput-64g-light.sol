# node_pattern throughput
=obj= 1.0
s[0] 1
w[2,0] 1
z[0,8,0] 7
