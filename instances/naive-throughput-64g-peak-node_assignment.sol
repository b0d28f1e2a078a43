# node_assignment throughput
=obj= -2.8432215015030713
s[0] 1
s[1] 1
s[2] 1
