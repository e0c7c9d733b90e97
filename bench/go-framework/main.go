// The Go framework's controllers with the smallest possible cloud: machines known by name, without an API. So its cost and
// its requests are the framework's own. --cloud-config names a file of lines "NAME IP".
//
// With MEMORY_BALANCERS it has load balancers (balancers.go); the value, as 127.0.0.1:8000, is the address on which it
// reports over HTTP how often it was called. MEMORY_LATENCY, as 5ms, is the duration of each of these calls; 0 by default.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/cli/flag"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
)

const provider = "memory"

type cloud struct {
	machines  map[string]string // addresses, by name
	balancers *balancers        // nil: none are offered
}

func read(file io.Reader) (cloudprovider.Interface, error) {
	c := cloud{machines: map[string]string{}}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var name, ip string
		if _, err := fmt.Sscan(lines.Text(), &name, &ip); err != nil {
			return nil, err
		}
		c.machines[name] = ip
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	var err error
	c.balancers, err = openBalancers(os.Getenv("MEMORY_BALANCERS"), os.Getenv("MEMORY_LATENCY"))
	return c, err
}

func (c cloud) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}
func (c cloud) ProviderName() string                                              { return provider }
func (c cloud) HasClusterID() bool                                                { return true }
func (c cloud) InstancesV2() (cloudprovider.InstancesV2, bool)                    { return c, true }
func (c cloud) Instances() (cloudprovider.Instances, bool)                        { return nil, false }
func (c cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	return c.balancers, c.balancers != nil
}
func (c cloud) Zones() (cloudprovider.Zones, bool)       { return nil, false }
func (c cloud) Clusters() (cloudprovider.Clusters, bool) { return nil, false }
func (c cloud) Routes() (cloudprovider.Routes, bool)     { return nil, false }

func (c cloud) InstanceExists(_ context.Context, node *v1.Node) (bool, error) {
	_, exists := c.machines[node.Name]
	return exists, nil
}

func (c cloud) InstanceShutdown(context.Context, *v1.Node) (bool, error) {
	return false, nil
}

func (c cloud) InstanceMetadata(_ context.Context, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
	ip, exists := c.machines[node.Name]
	if !exists {
		return nil, cloudprovider.InstanceNotFound
	}
	return &cloudprovider.InstanceMetadata{
		ProviderID:    provider + "://" + node.Name,
		InstanceType:  "bench",
		Zone:          "zone-0",
		Region:        "bench",
		NodeAddresses: []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: ip}, {Type: v1.NodeHostName, Address: node.Name}},
	}, nil
}

func open(completed *config.CompletedConfig) cloudprovider.Interface {
	shared := completed.ComponentConfig.KubeCloudShared.CloudProvider
	opened, err := cloudprovider.InitCloudProvider(shared.Name, shared.CloudConfigFile)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return opened
}

func main() {
	cloudprovider.RegisterCloudProvider(provider, read)
	defaults, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	command := app.NewCloudControllerManagerCommand(defaults, open, app.DefaultInitFuncConstructors,
		names.CCMControllerAliases(), flag.NamedFlagSets{}, wait.NeverStop)
	os.Exit(cli.Run(command))
}
