package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
)

const nAddresses = 1022 // 10.100.0.1 and on, of 10.100.0.0/22

type balancer struct {
	address string
	nodes   []string // names, sorted
}

// A cloud of load balancers in memory. It forgets them when it ends: a Service it does not know keeps the address that its
// status names, as it would with a cloud that remembers.
type balancers struct {
	latency time.Duration

	mutex sync.Mutex
	known map[types.UID]*balancer
	taken map[string]bool
	calls map[string]int // by method; "changes" counts those that made or changed something
}

func openBalancers(listen, latency string) (*balancers, error) {
	if listen == "" {
		return nil, nil
	}
	b := &balancers{known: map[types.UID]*balancer{}, taken: map[string]bool{}, calls: map[string]int{}}
	if latency != "" {
		var err error
		if b.latency, err = time.ParseDuration(latency); err != nil {
			return nil, err
		}
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, err
	}
	go http.Serve(listener, http.HandlerFunc(b.tell))
	return b, nil
}

func (b *balancers) tell(answer http.ResponseWriter, _ *http.Request) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	json.NewEncoder(answer).Encode(b.calls)
}

// begin waits as long as the cloud takes, and returns with the lock held.
func (b *balancers) begin(method string) {
	time.Sleep(b.latency)
	b.mutex.Lock()
	b.calls[method]++
}

func (b *balancers) GetLoadBalancerName(_ context.Context, _ string, service *v1.Service) string {
	return cloudprovider.DefaultLoadBalancerName(service)
}

func (b *balancers) GetLoadBalancer(_ context.Context, _ string, service *v1.Service) (*v1.LoadBalancerStatus, bool, error) {
	b.begin("GetLoadBalancer")
	defer b.mutex.Unlock()
	one, exists := b.known[service.UID]
	if !exists {
		return nil, false, nil
	}
	return one.status(), true, nil
}

func (b *balancers) EnsureLoadBalancer(_ context.Context, _ string, service *v1.Service, nodes []*v1.Node) (*v1.LoadBalancerStatus, error) {
	b.begin("EnsureLoadBalancer")
	defer b.mutex.Unlock()
	one, exists := b.known[service.UID]
	if !exists {
		address, err := b.take(service)
		if err != nil {
			return nil, err
		}
		one = &balancer{address: address}
		b.known[service.UID] = one
	}
	b.direct(one, nodes)
	return one.status(), nil
}

func (b *balancers) UpdateLoadBalancer(_ context.Context, _ string, service *v1.Service, nodes []*v1.Node) error {
	b.begin("UpdateLoadBalancer")
	defer b.mutex.Unlock()
	one, exists := b.known[service.UID]
	if !exists {
		return fmt.Errorf("no load balancer for %s/%s", service.Namespace, service.Name)
	}
	b.direct(one, nodes)
	return nil
}

func (b *balancers) EnsureLoadBalancerDeleted(_ context.Context, _ string, service *v1.Service) error {
	b.begin("EnsureLoadBalancerDeleted")
	defer b.mutex.Unlock()
	if one, exists := b.known[service.UID]; exists {
		delete(b.taken, one.address)
		delete(b.known, service.UID)
		b.calls["changes"]++
	}
	return nil
}

// take finds an address for a new balancer: the Service's own, else the first free one.
func (b *balancers) take(service *v1.Service) (string, error) {
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		if !b.taken[ingress.IP] {
			b.taken[ingress.IP] = true
			return ingress.IP, nil
		}
	}
	for number := 1; number <= nAddresses; number++ {
		address := fmt.Sprintf("10.100.%d.%d", number>>8, number&255)
		if !b.taken[address] {
			b.taken[address] = true
			return address, nil
		}
	}
	return "", fmt.Errorf("all %d addresses are taken", nAddresses)
}

func (b *balancers) direct(one *balancer, nodes []*v1.Node) {
	names := make([]string, 0, len(nodes))
	for _, node := range nodes {
		names = append(names, node.Name)
	}
	slices.Sort(names)
	if one.nodes == nil || !slices.Equal(one.nodes, names) {
		one.nodes = names
		b.calls["changes"]++
	}
}

// The mode is said, since the API server fills in what is left out, and then every sync would find a difference.
func (one *balancer) status() *v1.LoadBalancerStatus {
	mode := v1.LoadBalancerIPModeVIP
	return &v1.LoadBalancerStatus{Ingress: []v1.LoadBalancerIngress{{IP: one.address, IPMode: &mode}}}
}
