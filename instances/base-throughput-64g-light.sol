# node_pattern throughput
=obj= 1.947898003049615
s[0] 1
s[1] 1
s[2] 1
s[3] 1
w[0,0] 1
w[1,0] 1
w[3,0] 1
w[6,0] 1
w[7,0] 1
