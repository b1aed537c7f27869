package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func newCache(a args) (cache.Cache, error) {
	config, err := connect(a)
	if err != nil {
		return nil, err
	}
	options := cache.Options{Scheme: scheme}
	if a.text("strip") == "1" {
		options.DefaultTransform = cache.TransformStripManagedFields()
	}
	return cache.New(config, options)
}

func synced(ctx context.Context, pods cache.Cache, object client.Object) (cache.Informer, error) {
	go func() {
		if err := pods.Start(ctx); err != nil {
			fail(err)
		}
	}()
	informer, err := pods.GetInformer(ctx, object, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, err
	}
	return informer, await(ctx, informer.HasSynced)
}

// await asks every millisecond: WaitForCacheSync asks every 100 ms, and to that every time would
// be rounded up.
func await(ctx context.Context, synced func() bool) error {
	for !synced() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

func syncPods(ctx context.Context, a args) (result, error) {
	return syncObjects(ctx, a, &corev1.Pod{})
}

// syncSecrets caches all secrets, as a controller that reads any of them does.
func syncSecrets(ctx context.Context, a args) (result, error) {
	return syncObjects(ctx, a, &corev1.Secret{})
}

func syncMetadata(ctx context.Context, a args) (result, error) {
	pod := &metav1.PartialObjectMetadata{}
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	return syncObjects(ctx, a, pod)
}

func syncObjects(ctx context.Context, a args, object client.Object) (result, error) {
	m := processMeter()
	pods, err := newCache(a)
	if err != nil {
		return nil, err
	}
	informer, err := synced(ctx, pods, object)
	if err != nil {
		return nil, err
	}
	seconds, cpu := m.read()
	time.Sleep(time.Duration(a.number("settle-ms", 1000)) * time.Millisecond)
	lazy, peak := memory()
	settle()
	rss, _ := memory()
	count := len(informer.(toolscache.SharedIndexInformer).GetStore().ListKeys())
	return result{
		"time_s": seconds, "cpu_s": cpu, "rss_kb": rss, "rss_before_gc_kb": lazy,
		"peak_kb": peak, "count": count,
	}, nil
}

func stream(ctx context.Context, a args) (result, error) {
	pods, err := newCache(a)
	if err != nil {
		return nil, err
	}
	seen := &lags{}
	informer, err := synced(ctx, pods, &corev1.Pod{})
	if err != nil {
		return nil, err
	}
	handler, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, object any) {
			if pod, ok := object.(*corev1.Pod); ok {
				seen.stamp(pod.Labels[stampLabel], time.Now())
			}
		},
	})
	if err != nil {
		return nil, err
	}
	if err := await(ctx, handler.HasSynced); err != nil {
		return nil, err
	}
	settle()
	ready()
	command()
	m := startMeter()
	seen.reset()
	command()
	seconds, cpu := m.read()
	events := seen.len()
	return result{
		"time_s": seconds, "cpu_s": cpu, "events": events, "lag": seen.summary(),
		"cpu_us_per_event": cpu * 1e6 / float64(max(events, 1)),
	}, nil
}

func relist(ctx context.Context, a args) (result, error) {
	pods, err := newCache(a)
	if err != nil {
		return nil, err
	}
	informer, err := synced(ctx, pods, &corev1.Pod{})
	if err != nil {
		return nil, err
	}
	store := informer.(toolscache.SharedIndexInformer).GetStore()
	time.Sleep(time.Second)
	settle()
	before, _ := memory()
	resetPeak()
	ready()
	m := startMeter()
	command()
	_, cpu := m.read()
	_, peak := memory()
	settle()
	rss, _ := memory()
	return result{
		"cpu_s": cpu, "before_kb": before, "peak_kb": peak, "rss_kb": rss,
		"spike_kb": max(peak-before, 0), "count": len(store.ListKeys()),
	}, nil
}

func cachedGet(ctx context.Context, a args) (result, error) {
	pods, err := newCache(a)
	if err != nil {
		return nil, err
	}
	informer, err := synced(ctx, pods, &corev1.Pod{})
	if err != nil {
		return nil, err
	}
	count := len(informer.(toolscache.SharedIndexInformer).GetStore().ListKeys())
	keys := make([]client.ObjectKey, count)
	for n := range keys {
		keys[n] = client.ObjectKey{Namespace: namespace, Name: name(n)}
	}
	rounds := a.number("rounds", 200_000)
	timed := func(keys []client.ObjectKey) (float64, float64, error) {
		jump := jumps(3)
		m := startMeter()
		for range rounds {
			var pod corev1.Pod
			key := keys[jump.below(len(keys))]
			if err := pods.Get(ctx, key, &pod); err != nil {
				return 0, 0, fmt.Errorf("get %s: %w", key, err)
			}
		}
		seconds, cpu := m.read()
		return seconds * 1e9 / float64(rounds), cpu * 1e9 / float64(rounds), nil
	}
	hot, hotCPU, err := timed(keys[:min(count, 1000)])
	if err != nil {
		return nil, err
	}
	any, anyCPU, err := timed(keys)
	if err != nil {
		return nil, err
	}
	settle()
	rss, _ := memory()
	return result{
		"hot_ns": hot, "any_ns": any, "hot_cpu_ns": hotCPU, "any_cpu_ns": anyCPU,
		"count": count, "rss_kb": rss,
	}, nil
}

func indexedList(ctx context.Context, a args) (result, error) {
	pods, err := newCache(a)
	if err != nil {
		return nil, err
	}
	node := func(object client.Object) []string {
		return []string{object.(*corev1.Pod).Spec.NodeName}
	}
	if err := pods.IndexField(ctx, &corev1.Pod{}, "spec.nodeName", node); err != nil {
		return nil, err
	}
	if _, err := synced(ctx, pods, &corev1.Pod{}); err != nil {
		return nil, err
	}
	rounds := a.number("rounds", 2_000)
	timed := func(options ...client.ListOption) (float64, float64, error) {
		jump, listed := jumps(5), 0
		var took time.Duration
		for range rounds {
			field := fields.OneTermEqualSelector("spec.nodeName", fmt.Sprintf("node-%d", jump.below(nodes)))
			var list corev1.PodList
			all := append([]client.ListOption{client.MatchingFieldsSelector{Selector: field}}, options...)
			began := time.Now()
			if err := pods.List(ctx, &list, all...); err != nil {
				return 0, 0, err
			}
			took += time.Since(began)
			listed += len(list.Items)
		}
		return took.Seconds() * 1e6 / float64(rounds), float64(listed) / float64(rounds), nil
	}
	m := startMeter()
	copied, each, err := timed()
	if err != nil {
		return nil, err
	}
	_, cpu := m.read()
	shared, _, err := timed(client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, err
	}
	return result{"list_us": copied, "list_cpu_us": cpu * 1e6 / float64(rounds), "uncopied_us": shared, "each": each}, nil
}
