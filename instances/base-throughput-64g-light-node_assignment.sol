# node_assignment throughput
=obj= 1.710158710574865
s[0] 1
s[1] 1
