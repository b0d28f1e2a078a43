# node_assignment throughput
=obj= 1.947898003049615
s[0] 1
s[1] 1
s[2] 1
s[3] 1
