package main

import (
	"context"
	gosync "sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

type queue interface {
	workqueue.TypedRateLimitingInterface[client.ObjectKey]
}

// queues measures client-go's work queue and the priority queue that controllers use now.
func queues(_ context.Context, a args) (result, error) {
	limiter := workqueue.DefaultTypedControllerRateLimiter[client.ObjectKey]
	plain := func() queue { return workqueue.NewTypedRateLimitingQueue(limiter()) }
	priority := func() queue {
		return priorityqueue.New("bench", func(o *priorityqueue.Opts[client.ObjectKey]) {
			o.RateLimiter = limiter()
		})
	}
	found := result{}
	for prefix, make := range map[string]func() queue{"": plain, "priority_": priority} {
		for name, perSecond := range measure(make, a) {
			found[prefix+name] = perSecond
		}
	}
	return found, nil
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
