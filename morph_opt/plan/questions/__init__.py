"""Questions of planning, a module each."""
