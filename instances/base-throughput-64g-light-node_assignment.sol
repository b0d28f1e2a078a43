# node_assignment throughput
=obj= -2.652782186096477
s[0] 1
s[1] 1
s[2] 1
