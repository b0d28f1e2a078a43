# packed-fairness-24n
=obj= -0.0
