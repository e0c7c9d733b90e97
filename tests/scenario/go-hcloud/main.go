// Does with Hetzner's own library what the official controller does with it, and checks each answer.
//
//	hcloud make NAME IPV4 IPV6 SERVER…   makes a balancer with these Primary IPs and targets, and looks at it
//	hcloud change NAME                   another service, another algorithm
//	hcloud look NAME                     prints the health of its targets
//	hcloud remove NAME                   removes it, and waits for the action where the API has one
//
// Endpoint and token are those of the environment. An error ends it with 1.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
)

var ctx = context.Background()
var client = hcloud.NewClient(
	hcloud.WithEndpoint(os.Getenv("HCLOUD_ENDPOINT")), hcloud.WithToken(os.Getenv("HCLOUD_TOKEN")),
	hcloud.WithPollOpts(hcloud.PollOpts{BackoffFunc: hcloud.ConstantBackoff(50 * time.Millisecond)}),
	hcloud.WithRetryOpts(hcloud.RetryOpts{BackoffFunc: hcloud.ConstantBackoff(50 * time.Millisecond), MaxRetries: 2}))

func check(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func require(ok bool, format string, args ...any) {
	if !ok {
		check(fmt.Errorf(format, args...))
	}
}

func wait(action *hcloud.Action, _ *hcloud.Response, err error) {
	check(err)
	check(client.Action.WaitFor(ctx, action))
}

func number(text string) int64 {
	found, err := strconv.ParseInt(text, 10, 64)
	check(err)
	return found
}

func primaryIP(text string) *hcloud.PrimaryIP {
	found, _, err := client.PrimaryIP.GetByID(ctx, number(text))
	check(err)
	require(found != nil, "Primary IP %s not found", text)
	return found
}

func named(name string) *hcloud.LoadBalancer {
	found, _, err := client.LoadBalancer.GetByName(ctx, name)
	check(err)
	require(found != nil, "load balancer %s not found", name)
	return found
}

func makeBalancer(name, v4, v6 string, servers []string) {
	ipv4, ipv6 := primaryIP(v4), primaryIP(v6)
	opts := hcloud.LoadBalancerCreateOpts{
		Name: name, LoadBalancerType: &hcloud.LoadBalancerType{Name: "lb11"}, Location: ipv4.Location,
		Algorithm: &hcloud.LoadBalancerAlgorithm{Type: hcloud.LoadBalancerAlgorithmTypeRoundRobin},
		Labels:    map[string]string{"a": "b"},
		PublicNet: &hcloud.LoadBalancerCreateOptsPublicNet{IPv4: ipv4, IPv6: ipv6},
		Services: []hcloud.LoadBalancerCreateOptsService{{
			Protocol: hcloud.LoadBalancerServiceProtocolTCP, ListenPort: hcloud.Ptr(80), DestinationPort: hcloud.Ptr(30080),
			HealthCheck: &hcloud.LoadBalancerCreateOptsServiceHealthCheck{
				Protocol: hcloud.LoadBalancerServiceProtocolTCP, Port: hcloud.Ptr(30080)}}},
	}
	for _, server := range servers {
		opts.Targets = append(opts.Targets, hcloud.LoadBalancerCreateOptsTarget{
			Type:   hcloud.LoadBalancerTargetTypeServer,
			Server: hcloud.LoadBalancerCreateOptsTargetServer{Server: &hcloud.Server{ID: number(server)}}})
	}
	made, response, err := client.LoadBalancer.Create(ctx, opts)
	wait(made.Action, response, err)
	found := named(name)
	require(found.PublicNet.IPv4.ID == ipv4.ID && found.PublicNet.IPv4.IP.Equal(ipv4.IP), "another IPv4 address: %v", found.PublicNet.IPv4)
	require(found.PublicNet.IPv6.ID == ipv6.ID && ipv6.Network.Contains(found.PublicNet.IPv6.IP), "another IPv6 address: %v", found.PublicNet.IPv6)
	require(!found.PublicNet.IPv4.Blocked, "the address is blocked")
	taken := primaryIP(v4)
	require(taken.AssigneeID == found.ID && taken.AssigneeType == "load_balancer", "assigned to %s %d", taken.AssigneeType, taken.AssigneeID)
	require(len(found.Targets) == len(servers), "%d targets", len(found.Targets))
}

func change(name string) {
	found := named(name)
	wait(client.LoadBalancer.AddService(ctx, found, hcloud.LoadBalancerAddServiceOpts{
		Protocol: hcloud.LoadBalancerServiceProtocolHTTP, ListenPort: hcloud.Ptr(81), DestinationPort: hcloud.Ptr(30081),
		HealthCheck: &hcloud.LoadBalancerAddServiceOptsHealthCheck{
			Protocol: hcloud.LoadBalancerServiceProtocolHTTP, Port: hcloud.Ptr(30081),
			HTTP: &hcloud.LoadBalancerAddServiceOptsHealthCheckHTTP{Path: hcloud.Ptr("/up"), StatusCodes: []string{"2??"}}}}))
	wait(client.LoadBalancer.ChangeAlgorithm(ctx, found, hcloud.LoadBalancerChangeAlgorithmOpts{
		Type: hcloud.LoadBalancerAlgorithmTypeLeastConnections}))
	found = named(name)
	require(len(found.Services) == 2, "%d services", len(found.Services))
	require(found.Algorithm.Type == hcloud.LoadBalancerAlgorithmTypeLeastConnections, "algorithm %s", found.Algorithm.Type)
}

func look(name string) {
	for _, target := range named(name).Targets {
		for _, health := range target.HealthStatus {
			fmt.Print(target.Server.Server.ID, " ", health.ListenPort, " ", health.Status)
			if health.Detail != nil {
				fmt.Print(" ", *health.Detail)
			}
			if health.HTTPStatusCode != nil {
				fmt.Print(" ", *health.HTTPStatusCode)
			}
			fmt.Println()
		}
	}
}

func remove(name string) {
	result, response, err := client.LoadBalancer.DeleteWithResult(ctx, named(name))
	wait(result.Action, response, err)
	found, _, err := client.LoadBalancer.GetByName(ctx, name)
	check(err)
	require(found == nil, "the balancer is still there")
}

func main() {
	name := os.Args[2]
	switch os.Args[1] {
	case "make":
		makeBalancer(name, os.Args[3], os.Args[4], os.Args[5:])
	case "change":
		change(name)
	case "look":
		look(name)
	case "remove":
		remove(name)
	}
}
