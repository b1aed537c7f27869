package main

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// teams sets a label that pods do not have.
type teams struct{}

func (teams) Default(_ context.Context, pod *corev1.Pod) error {
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	if _, found := pod.Labels["team"]; !found {
		pod.Labels["team"] = "bench"
	}
	return nil
}

// admit serves the webhook with the certificate of a directory until a line comes. HTTP/2 is off, as
// kubebuilder's main does it.
func admit(ctx context.Context, a args) (result, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	server := webhook.NewServer(webhook.Options{
		Host: "127.0.0.1", Port: port, CertDir: a.text("directory"),
		TLSOpts: []func(*tls.Config){func(config *tls.Config) { config.NextProtos = []string{"http/1.1"} }},
	})
	server.Register("/mutate--v1-pod", admission.WithDefaulter[*corev1.Pod](scheme, teams{}))
	failed := make(chan error, 1)
	go func() { failed <- server.Start(ctx) }()
	for server.StartedChecker()(nil) != nil {
		select {
		case err := <-failed:
			return nil, err
		case <-time.After(time.Millisecond):
		}
	}
	meter := startMeter()
	say(result{"ready": true, "port": port})
	command()
	_, cpu := meter.read()
	rss, peak := memory()
	return result{"cpu_s": cpu, "rss_kb": rss, "peak_kb": peak}, nil
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
