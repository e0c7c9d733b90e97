module framework

go 1.26.0

require (
	k8s.io/api v0.36.3
	k8s.io/apimachinery v0.36.3
	k8s.io/cloud-provider v0.36.3
	k8s.io/component-base v0.36.3
)
