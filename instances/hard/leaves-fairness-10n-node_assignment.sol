# leaves-fairness-10n-node_assignment
=obj= -1.4886761170676723
s[2] 1
s[8] 1
s[12] 1
s[15] 1
s[17] 1
s[24] 1
