package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

type reconciler = func(context.Context, client.Client, ctrl.Request) (ctrl.Result, error)

// run starts a manager with one controller that also takes keys from a channel.
func run(
	ctx context.Context, a args, object client.Object, workers int, work reconciler,
) (chan event.GenericEvent, client.Client, error) {
	config, err := connect(a)
	if err != nil {
		return nil, nil, err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
	})
	if err != nil {
		return nil, nil, err
	}
	keys := make(chan event.GenericEvent, 1024)
	err = ctrl.NewControllerManagedBy(manager).Named("bench").For(object).
		WatchesRawSource(source.Channel(keys, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(reconcile.Func(func(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
			return work(ctx, manager.GetClient(), r)
		}))
	if err != nil {
		return nil, nil, err
	}
	go func() {
		if err := manager.Start(ctx); err != nil {
			fail(err)
		}
	}()
	return keys, manager.GetClient(), nil
}

func throughput(ctx context.Context, a args) (result, error) {
	counted, read := newTally(), a.text("scenario") == "reconcile"
	work := func(ctx context.Context, c client.Client, r ctrl.Request) (ctrl.Result, error) {
		if read {
			var pod corev1.Pod
			if err := c.Get(ctx, r.NamespacedName, &pod); err != nil {
				return ctrl.Result{}, client.IgnoreNotFound(err)
			}
		}
		counted.add()
		return ctrl.Result{}, nil
	}
	keys, _, err := run(ctx, a, &corev1.Pod{}, a.number("workers", 4), work)
	if err != nil {
		return nil, err
	}
	size := a.number("size", 1000)
	counted.reach(size)
	rounds := max(a.number("total", 200_000)/size, 1)
	pods := objects[corev1.Pod](size)
	m := startMeter()
	for round := 1; round <= rounds; round++ {
		for _, pod := range pods {
			keys <- event.GenericEvent{Object: pod}
		}
		counted.reach(size * (round + 1))
	}
	return rate(m, rounds*size), nil
}

func status(ctx context.Context, a args) (result, error) {
	seen, counted := newTally(), newTally()
	var token atomic.Value
	token.Store("")
	work := func(ctx context.Context, c client.Client, r ctrl.Request) (ctrl.Result, error) {
		seen.add()
		var pod corev1.Pod
		if err := c.Get(ctx, r.NamespacedName, &pod); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		wanted := token.Load().(string)
		if wanted == "" || pod.Status.Message == wanted {
			return ctrl.Result{}, nil
		}
		patch, err := json.Marshal(map[string]any{"status": map[string]any{"message": wanted}})
		if err != nil {
			return ctrl.Result{}, err
		}
		if err := c.Status().Patch(ctx, &pod, client.RawPatch(types.MergePatchType, patch)); err != nil {
			return ctrl.Result{}, err
		}
		counted.add()
		return ctrl.Result{}, nil
	}
	keys, _, err := run(ctx, a, &corev1.Pod{}, a.number("workers", 4), work)
	if err != nil {
		return nil, err
	}
	size := a.number("size", 1000)
	seen.reach(size)
	token.Store(fmt.Sprintf("t%d", time.Now().UnixMicro()))
	m := startMeter()
	patches := min(size, a.number("patches", size))
	for _, pod := range objects[corev1.Pod](patches) {
		keys <- event.GenericEvent{Object: pod}
	}
	counted.reach(patches)
	return rate(m, patches), nil
}

func latency(ctx context.Context, a args) (result, error) {
	begun, read, counted := &lags{}, &lags{}, newTally()
	work := func(ctx context.Context, c client.Client, r ctrl.Request) (ctrl.Result, error) {
		began := time.Now()
		var pod corev1.Pod
		if err := c.Get(ctx, r.NamespacedName, &pod); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		done := time.Now()
		begun.stamp(pod.Labels[stampLabel], began)
		read.stamp(pod.Labels[stampLabel], done)
		counted.add()
		return ctrl.Result{}, nil
	}
	if _, _, err := run(ctx, a, &corev1.Pod{}, a.number("workers", 4), work); err != nil {
		return nil, err
	}
	counted.reach(a.number("size", 1000))
	settle()
	ready()
	command()
	m := startMeter()
	begun.reset()
	read.reset()
	command()
	seconds, cpu := m.read()
	return result{
		"time_s": seconds, "cpu_s": cpu, "events": begun.len(),
		"lag": begun.summary(), "seen": begun.seen(), "seen_read": read.seen(),
	}, nil
}

func inflight(ctx context.Context, a args) (result, error) {
	counted := newTally()
	var waiting atomic.Bool
	pause := time.Duration(a.number("pause-ms", 100)) * time.Millisecond
	// Nobody reads the object here: a deep copy of each would be what is measured.
	work := func(_ context.Context, _ client.Client, r ctrl.Request) (ctrl.Result, error) {
		if r.Namespace != namespace {
			return ctrl.Result{}, nil
		}
		if waiting.Load() {
			time.Sleep(pause)
		}
		counted.add()
		return ctrl.Result{}, nil
	}
	size, all := a.number("size", 32_000), a.number("objects", 32_000)
	keys, _, err := run(ctx, a, &corev1.ConfigMap{}, a.number("workers", size), work)
	if err != nil {
		return nil, err
	}
	counted.reach(all)
	waiting.Store(true)
	made, passes := objects[corev1.ConfigMap](size), max(2*all/size, 8)
	var m meter
	// Half of the passes warm up.
	for pass := range 2 * passes {
		if pass == passes {
			m = startMeter()
		}
		for _, object := range made {
			keys <- event.GenericEvent{Object: object}
		}
		counted.reach(all + (pass+1)*size)
	}
	return rate(m, passes*size), nil
}

func first(ctx context.Context, a args) (result, error) {
	m := processMeter()
	done := make(chan struct{}, 1)
	work := func(context.Context, client.Client, ctrl.Request) (ctrl.Result, error) {
		select {
		case done <- struct{}{}:
		default:
		}
		return ctrl.Result{}, nil
	}
	if _, _, err := run(ctx, a, &corev1.ConfigMap{}, 1, work); err != nil {
		return nil, err
	}
	<-done
	say(result{"reconciled": true})
	_, cpu := m.read()
	rss, peak := memory()
	return result{"cpu_s": cpu, "rss_kb": rss, "peak_kb": peak}, nil
}

// objects makes the first size objects, with nothing but their names.
func objects[T any, P interface {
	*T
	client.Object
}](size int) []client.Object {
	made := make([]client.Object, size)
	for n := range made {
		object := P(new(T))
		object.SetNamespace(namespace)
		object.SetName(name(n))
		made[n] = object
	}
	return made
}
