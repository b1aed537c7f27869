// Command bench is the controller-runtime contestant of the benchmark.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

var scheme = runtime.NewScheme()

func main() {
	arguments := parse(os.Args[1:])
	log.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		fail(err)
	}
	scenarios := map[string]func(context.Context, args) (result, error){
		"sync":          syncPods,
		"admission":     admit,
		"reconcile-key": throughput,
		"sync-meta":     syncMetadata,
		"stream":        stream,
		"stream-typed":  stream,
		"relist":        relist,
		"get":           cachedGet,
		"index":         indexedList,
		"reconcile":     throughput,
		"status":        status,
		"latency":       latency,
		"inflight":      inflight,
		"start":         first,
		"queue":         queues,
		"secrets":       syncSecrets,
	}
	run, found := scenarios[arguments.text("scenario")]
	if !found {
		fail(fmt.Errorf("no scenario %q", arguments.text("scenario")))
	}
	outcome, err := run(context.Background(), arguments)
	if err != nil {
		fail(err)
	}
	say(outcome)
	os.Exit(0)
}

// connect reads the kubeconfig. Client-side throttling is off: it would be the only thing measured.
func connect(a args) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", a.text("kubeconfig"))
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	if a.text("wire") != "json" {
		config.ContentType = runtime.ContentTypeProtobuf
		config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	} else {
		config.ContentType = runtime.ContentTypeJSON
		config.AcceptContentTypes = runtime.ContentTypeJSON
	}
	return config, nil
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "bench:", err)
	os.Exit(1)
}
