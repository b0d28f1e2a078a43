# node_pattern throughput
=obj= 1.7767099408159133
s[0] 1
s[1] 1
s[2] 1
s[3] 1
w[3,0] 1
w[4,0] 1
w[5,0] 1
w[6,0] 1
w[7,0] 1
