module brightbox

go 1.26.0

require (
	github.com/brightbox/gobrightbox/v2 v2.2.2
	github.com/brightbox/k8ssdk/v2 v2.1.1
)
