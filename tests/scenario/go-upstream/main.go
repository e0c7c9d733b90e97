// Prints what the Go framework shows to its users, as JSON: all flags with types, defaults and deprecation, all metrics with
// types, labels and buckets, and the configuration of /configz. No API server is contacted: the controllers are made, and
// that registers their metrics.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"unsafe"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/wait"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	internal "k8s.io/cloud-provider/config"
	v1alpha1 "k8s.io/cloud-provider/config/v1alpha1"
	"k8s.io/cloud-provider/fake"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	"k8s.io/component-base/cli/flag"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	genericcontrollermanager "k8s.io/controller-manager/app"
)

type described struct {
	Type       string `json:"type"`
	Default    string `json:"default"`
	Deprecated string `json:"deprecated,omitempty"`
	Hidden     bool   `json:"hidden,omitempty"`
	Shorthand  string `json:"shorthand,omitempty"`
}

type metric struct {
	Type    string    `json:"type"`
	Labels  []string  `json:"labels"`
	Buckets []float64 `json:"buckets,omitempty"`
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func flags(all *pflag.FlagSet) map[string]described {
	found := map[string]described{}
	all.VisitAll(func(f *pflag.Flag) {
		found[f.Name] = described{f.Value.Type(), f.DefValue, f.Deprecated, f.Hidden, f.Shorthand}
	})
	return found
}

// Registers the metrics of all controllers, by making them.
func makeControllers(completed *config.CompletedConfig) {
	cloud := &fake.Cloud{}
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // nothing shall run
	controllers := genericcontrollermanager.ControllerContext{
		ControllerManagerMetrics: controllersmetrics.NewControllerManagerMetrics("cloud-controller-manager"),
	}
	controllersmetrics.Register()
	for _, start := range app.ConstructControllerInitializers(app.DefaultInitFuncConstructors, completed, cloud) {
		_, _, err := start(ctx, controllers)
		fail(err)
	}
}

var labels = regexp.MustCompile(`fqName: "([^"]*)".*variableLabels: \{([^}]*)\}`)

// The registry does not say what is registered, only what has values; so its private table is read, and each metric with
// labels gets one value.
func collectors() []prometheus.Collector {
	table := reflect.ValueOf(legacyregistry.Registerer()).Elem().FieldByName("collectorsByID")
	table = reflect.NewAt(table.Type(), unsafe.Pointer(table.UnsafeAddr())).Elem()
	var all []prometheus.Collector
	for _, one := range table.MapKeys() {
		all = append(all, table.MapIndex(one).Interface().(prometheus.Collector))
	}
	return all
}

func labelsOf(one prometheus.Collector) map[string][]string {
	descriptions := make(chan *prometheus.Desc, 1000)
	one.Describe(descriptions)
	close(descriptions)
	found := map[string][]string{}
	for description := range descriptions {
		parts := labels.FindStringSubmatch(description.String())
		found[parts[1]] = strings.FieldsFunc(parts[2], func(r rune) bool { return r == ',' })
	}
	return found
}

func metrics() map[string]metric {
	known := map[string][]string{}
	for _, one := range collectors() {
		for name, names := range labelsOf(one) {
			known[name] = names
			if with := reflect.ValueOf(one).MethodByName("WithLabelValues"); with.IsValid() {
				with.CallSlice([]reflect.Value{reflect.ValueOf(make([]string, len(names)))})
			}
		}
	}
	families, err := legacyregistry.DefaultGatherer.Gather()
	fail(err)
	found := map[string]metric{}
	for name, names := range known {
		found[name] = metric{Labels: names}
	}
	for _, family := range families {
		one := found[family.GetName()]
		one.Type = strings.ToLower(family.GetType().String())
		for _, bucket := range family.GetMetric()[0].GetHistogram().GetBucket() {
			one.Buckets = append(one.Buckets, bucket.GetUpperBound())
		}
		found[family.GetName()] = one
	}
	return found
}

func configuration(completed *config.CompletedConfig) any {
	shown := &v1alpha1.CloudControllerManagerConfiguration{}
	fail(v1alpha1.Convert_config_CloudControllerManagerConfiguration_To_v1alpha1_CloudControllerManagerConfiguration(
		(*internal.CloudControllerManagerConfiguration)(&completed.ComponentConfig), shown, nil))
	shown.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("CloudControllerManagerConfiguration"))
	return map[string]any{app.ConfigzName: shown}
}

func main() {
	settings, err := options.NewCloudControllerManagerOptions()
	fail(err)
	open := func(*config.CompletedConfig) cloudprovider.Interface { return nil }
	command := app.NewCloudControllerManagerCommand(settings, open, app.DefaultInitFuncConstructors,
		names.CCMControllerAliases(), flag.NamedFlagSets{}, wait.NeverStop)
	found := flags(command.Flags())
	fail(command.Flags().Parse(os.Args[1:]))
	config, err := settings.Config(app.ControllerNames(app.DefaultInitFuncConstructors), nil, names.CCMControllerAliases(), nil, nil)
	fail(err)
	completed := config.Complete()
	makeControllers(completed)
	shown := json.NewEncoder(os.Stdout)
	shown.SetIndent("", "  ")
	fail(shown.Encode(map[string]any{"flags": found, "metrics": metrics(), "configz": configuration(completed)}))
}
