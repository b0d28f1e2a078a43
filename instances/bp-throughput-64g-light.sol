# node_pattern throughput
=obj= 1.7231822669591286
s[0] 1
s[1] 1
w[2,4] 1
w[4,0] 1
w[5,0] 1
z[0,8,0] 5
z[0,4,2] 1
