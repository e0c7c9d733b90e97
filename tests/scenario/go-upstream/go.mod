module upstream

go 1.26.0

require (
	github.com/prometheus/client_golang v1.23.2
	github.com/spf13/pflag v1.0.10
	k8s.io/cloud-provider v0.37.2
	k8s.io/component-base v0.37.2
	k8s.io/controller-manager v0.37.2
)
