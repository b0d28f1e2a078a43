# packed-lookahead-24n
=obj= -0.0
