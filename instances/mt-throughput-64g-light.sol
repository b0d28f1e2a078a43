# node_pattern throughput
=obj= -2.2268901511370176
x[2,122] 1
s[0] 1
s[1] 1
w[2,0] 1
w[7,0] 1
z[0,2,0] 4
