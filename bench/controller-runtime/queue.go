package main

import (
	"context"
	"fmt"
	gosync "sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

type queue interface {
	workqueue.TypedRateLimitingInterface[client.ObjectKey]
}

// named is the name of the queues that keep metrics.
const named = "bench"

// queues measures client-go's work queue, as controllers have it and without its metrics, and the
// priority queue that controllers use now. A queue without a name keeps no metrics.
func queues(_ context.Context, a args) (result, error) {
	limiter := workqueue.DefaultTypedControllerRateLimiter[client.ObjectKey]
	plain := func(name string) func() queue {
		config := workqueue.TypedRateLimitingQueueConfig[client.ObjectKey]{Name: name}
		return func() queue { return workqueue.NewTypedRateLimitingQueueWithConfig(limiter(), config) }
	}
	priority := func() queue {
		return priorityqueue.New(named+"-priority", func(o *priorityqueue.Opts[client.ObjectKey]) {
			o.RateLimiter = limiter()
		})
	}
	found := result{}
	for prefix, make := range map[string]func() queue{
		"": plain(named), "bare_": plain(""), "priority_": priority,
	} {
		for name, perSecond := range measure(make, a) {
			found[prefix+name] = perSecond
		}
	}
	counted, err := observed()
	if err != nil {
		return nil, err
	}
	if least := uint64(a.number("total", 1_000_000)); counted < least {
		return nil, fmt.Errorf("the metrics of the queue know %d keys of %d and more", counted, least)
	}
	return found, nil
}

// observed returns how many keys the metrics of the named queue have seen being worked on: the
// provider is set by controller-runtime when it is loaded, and a comparison without it would not
// be what it says.
func observed() (uint64, error) {
	families, err := metrics.Registry.Gather()
	if err != nil {
		return 0, err
	}
	for _, family := range families {
		if family.GetName() != metrics.WorkQueueSubsystem+"_"+metrics.WorkDurationKey {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "name" && label.GetValue() == named {
					return metric.GetHistogram().GetSampleCount(), nil
				}
			}
		}
	}
	return 0, nil
}

func measure(newQueue func() queue, a args) map[string]float64 {
	size := a.number("size", 10_000)
	rounds := max(a.number("total", 1_000_000)/size, 1)
	keys := make([]client.ObjectKey, size)
	for n := range keys {
		keys[n] = client.ObjectKey{Namespace: namespace, Name: name(n)}
	}
	found := map[string]float64{}
	timed := func(name string, work func(queue)) {
		q := newQueue()
		defer q.ShutDown()
		m := startMeter()
		for range rounds {
			work(q)
		}
		seconds, cpu := m.read()
		found[name+"_per_s"] = float64(rounds*size) / seconds
		found[name+"_cpu_ns"] = cpu * 1e9 / float64(rounds*size)
	}
	take := func(q queue, count int) {
		for range count {
			key, _ := q.Get()
			q.Done(key)
		}
	}
	timed("alone", func(q queue) {
		for _, key := range keys {
			q.Add(key)
		}
		take(q, size)
	})
	timed("merged", func(q queue) {
		for _, key := range keys {
			q.Add(key)
		}
	})
	timed("delayed", func(q queue) {
		for _, key := range keys {
			q.AddAfter(key, time.Millisecond)
		}
		take(q, size)
	})
	timed("shared", func(q queue) {
		const hands = 4
		var all gosync.WaitGroup
		for hand := range hands {
			all.Go(func() { take(q, size/hands) })
			all.Go(func() {
				for _, key := range keys[hand*size/hands : (hand+1)*size/hands] {
					q.Add(key)
				}
			})
		}
		all.Wait()
	})
	return found
}
