module hcloud

go 1.26.10

require github.com/hetznercloud/hcloud-go/v2 v2.53.0
