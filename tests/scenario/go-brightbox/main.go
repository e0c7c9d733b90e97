// Does with Brightbox's own library what the official controller does with it, and checks each answer.
//
//	brightbox make NAME SERVER…      makes a balancer with its cloud IP, group and firewall
//	brightbox change NAME SERVER…    other servers, another listener, another rule
//	brightbox remove NAME            removes all of it
//	brightbox look SERVER            prints what a server is
//
// Credentials are those of the environment. An error ends it with 1.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	brightbox "github.com/brightbox/gobrightbox/v2"
	"github.com/brightbox/gobrightbox/v2/enums/balancingpolicy"
	"github.com/brightbox/gobrightbox/v2/enums/healthchecktype"
	"github.com/brightbox/gobrightbox/v2/enums/listenerprotocol"
	"github.com/brightbox/gobrightbox/v2/enums/proxyprotocol"
	"github.com/brightbox/k8ssdk/v2"
)

var cloud k8ssdk.Cloud
var ctx = context.Background()

func must[T any](found T, err error) T {
	check(err)
	return found
}

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

func options(name string, servers []string, ports ...uint16) brightbox.LoadBalancerOptions {
	made := brightbox.LoadBalancerOptions{
		Name:        &name,
		Policy:      balancingpolicy.RoundRobin,
		Healthcheck: &brightbox.LoadBalancerHealthcheck{Type: healthchecktype.Http, Port: 30080, Request: "/healthz", Interval: 4000},
	}
	for _, server := range servers {
		made.Nodes = append(made.Nodes, brightbox.LoadBalancerNode{Node: server})
	}
	for _, port := range ports {
		made.Listeners = append(made.Listeners, brightbox.LoadBalancerListener{
			Protocol: listenerprotocol.Tcp, In: port, Out: 30000 + port, Timeout: 60000, ProxyProtocol: proxyprotocol.V2})
	}
	return made
}

func makeAll(name string, servers []string) {
	cip := must(cloud.AllocateCloudIP(ctx, name))
	group := must(cloud.CreateServerGroup(ctx, name))
	group = must(cloud.SyncServerGroup(ctx, group, servers))
	require(len(group.Servers) == len(servers), "the group has %d servers", len(group.Servers))
	policy := must(cloud.CreateFirewallPolicy(ctx, *group))
	require(policy.ServerGroup != nil && policy.ServerGroup.ID == group.ID, "the policy is not applied to the group")
	source, protocol, ports := "10.0.0.0/8", "tcp", "30080,30443"
	must(cloud.CreateFirewallRule(ctx, brightbox.FirewallRuleOptions{FirewallPolicy: policy.ID, Protocol: &protocol,
		Source: &source, DestinationPort: &ports, Description: &name}))
	wanted := options(name, servers, 80)
	lb := must(cloud.CreateLoadBalancer(ctx, wanted))
	require(!k8ssdk.IsUpdateLoadBalancerRequired(lb, wanted), "the new balancer differs from what was asked for")
	check(cloud.EnsureMappedCloudIP(ctx, lb, cip))
	lb = must(cloud.GetLoadBalancerByID(ctx, lb.ID))
	check(k8ssdk.ErrorIfNotComplete(lb, cip.ID, name))
	cip = must(cloud.GetCloudIP(ctx, cip.ID))
	require(cip.LoadBalancer != nil && cip.LoadBalancer.ID == lb.ID, "the cloud IP does not say where it is mapped")
}

func changeAll(name string, servers []string) {
	lb := must(cloud.GetLoadBalancerByName(ctx, name))
	require(lb != nil, "no balancer is found by its name")
	wanted := options(name, servers, 80, 443)
	wanted.ID = lb.ID
	require(k8ssdk.IsUpdateLoadBalancerRequired(lb, wanted), "the change makes no difference")
	lb = must(cloud.UpdateLoadBalancer(ctx, wanted))
	require(!k8ssdk.IsUpdateLoadBalancerRequired(lb, wanted), "the change was not made")
	group := must(cloud.GetServerGroupByName(ctx, name))
	must(cloud.SyncServerGroup(ctx, group, servers))
	policy := must(cloud.GetFirewallPolicyByName(ctx, name))
	require(len(policy.Rules) == 1, "the policy has %d rules", len(policy.Rules))
	ports := "30081"
	rule := must(cloud.UpdateFirewallRule(ctx, brightbox.FirewallRuleOptions{ID: policy.Rules[0].ID, DestinationPort: &ports, Description: &name}))
	require(rule.DestinationPort == ports, "the rule's ports are %q", rule.DestinationPort)
}

func removeAll(name string) {
	group := must(cloud.GetServerGroupByName(ctx, name))
	group = must(cloud.SyncServerGroup(ctx, group, nil))
	check(cloud.DestroyServerGroup(ctx, group.ID))
	check(cloud.DestroyFirewallPolicy(ctx, must(cloud.GetFirewallPolicyByName(ctx, name)).ID))
	lb := must(cloud.GetLoadBalancerByName(ctx, name))
	check(cloud.DestroyLoadBalancer(ctx, lb.ID))
	check(cloud.DestroyCloudIPs(ctx, must(cloud.GetCloudIPs(ctx)), "", name))
	check(k8ssdk.ErrorIfNotErased(must(cloud.GetLoadBalancerByID(ctx, lb.ID))))
	require(must(cloud.GetLoadBalancerByName(ctx, name)) == nil, "a deleted balancer is found by its name")
}

func look(id string) {
	server := must(cloud.GetServer(ctx, id, errors.New("not found")))
	fmt.Println(server.ID, server.Status, server.Hostname, server.Fqdn, server.Zone.Handle, server.ServerType.Handle,
		server.Interfaces[0].IPv4Address, server.Interfaces[0].IPv6Address, len(server.CloudIPs))
}

func main() {
	switch os.Args[1] {
	case "make":
		makeAll(os.Args[2], os.Args[3:])
	case "change":
		changeAll(os.Args[2], os.Args[3:])
	case "remove":
		removeAll(os.Args[2])
	case "look":
		look(os.Args[2])
	}
}
