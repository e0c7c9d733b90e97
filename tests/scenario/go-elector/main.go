// A replica that only takes part in the election, by client-go, as the controllers of the Go framework do: it prints
// what happens, and ends with 1 when it loses the lease. It does not release it, as they do not.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "how to reach the API server")
	identity := flag.String("identity", "go", "who holds the lease")
	duration := flag.Duration("lease-duration", 15*time.Second, "")
	deadline := flag.Duration("renew-deadline", 10*time.Second, "")
	period := flag.Duration("retry-period", 2*time.Second, "")
	flag.Parse()

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	leaderelection.RunOrDie(context.Background(), leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: "kube-system", Name: "cloud-controller-manager"},
			Client:     kubernetes.NewForConfigOrDie(config).CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: *identity},
		},
		LeaseDuration: *duration,
		RenewDeadline: *deadline,
		RetryPeriod:   *period,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { fmt.Println("started leading") },
			OnStoppedLeading: func() { fmt.Println("stopped leading"); os.Exit(1) },
			OnNewLeader:      func(who string) { fmt.Println("leader is", who) },
		},
	})
}
