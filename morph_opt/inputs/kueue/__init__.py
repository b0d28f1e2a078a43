"""Reader of objects of Kueue and Kubernetes, as ``kubectl get -o json`` prints them."""
