"""Kubernetes: what ``kubectl get ... -o json`` lists of a cluster, as one instance.

`objects` reads the files, `pods` what a pod asks for, `gangs` which pods belong together, `hosts`
what is free on the nodes and which of them a pod may use, `quotas` what the queues allow, and
`snapshot` puts it together.
"""

from alloc.instances.readers.kubernetes.snapshot import kubernetes_instance as kubernetes_instance
