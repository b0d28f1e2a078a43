# node_pattern throughput
=obj= 1.840869973645538
s[0] 1
s[2] 1
w[0,0] 1
w[1,0] 1
w[2,0] 1
w[3,0] 1
w[4,0] 1
w[5,0] 1
w[6,0] 1
w[7,0] 1
