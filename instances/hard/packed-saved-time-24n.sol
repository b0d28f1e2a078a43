# packed-saved-time-24n
=obj= -0.0
