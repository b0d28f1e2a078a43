"""The library of instances: rounds as files, the best known of them, a checker, the making."""
