"""The lab: a fabric of real packets in the network namespaces of one Linux machine."""
