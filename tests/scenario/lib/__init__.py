"""What the scenarios, the demo and the benchmarks share: a real control plane, nodes, ccmd, and ways to hurt them."""
