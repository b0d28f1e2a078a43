# leaves-cost-10n-node_assignment
=obj= -0.0
