# node_assignment throughput
=obj= 2.104316091178294
s[0] 1
s[1] 1
s[2] 1
s[3] 1
