{{/* Choices about how clients, gateways and Prometheus come in that contradict each other, each said in words. */}}

{{- define "milepost.checkTls" -}}
{{- if and .Values.auth.serviceAccounts.audience (not .Values.auth.existingSecret) -}}
{{- fail "\n\nauth.serviceAccounts needs auth.existingSecret, whose lines say what each account may do:\n  serviceaccount:NAMESPACE/NAME writer=STORE\n" -}}
{{- end -}}
{{- $tls := .Values.tls -}}
{{- if and $tls.existingSecret $tls.certManager.enabled -}}
{{- fail "\n\ntls.existingSecret and tls.certManager exclude each other: who makes the certificate?\n" -}}
{{- end -}}
{{- if and $tls.certManager.enabled (not $tls.certManager.issuerRef.name) -}}
{{- fail "\n\nWho issues the certificate? Set tls.certManager.issuerRef.name to an Issuer of this namespace, or kind=ClusterIssuer as well.\n" -}}
{{- end -}}
{{- if and $tls.clientCa.existingSecret $tls.clientCa.existingConfigMap -}}
{{- fail "\n\ntls.clientCa.existingSecret and tls.clientCa.existingConfigMap exclude each other.\n" -}}
{{- end -}}
{{- if and (include "milepost.demandsCertificates" .) (not (include "milepost.tlsSecret" .)) -}}
{{- fail "\n\ntls.clientCa needs tls.existingSecret or tls.certManager: without TLS no client shows a certificate.\n" -}}
{{- end -}}
{{- end -}}

{{- define "milepost.checkWaysIn" -}}
{{- range $which := list "service" "leaderService" -}}
{{- $given := get $.Values $which -}}
{{- if and $given.nodePort (eq $given.type "ClusterIP") -}}
{{- fail (printf "\n\n%s.nodePort needs %s.type=NodePort or LoadBalancer.\n" $which $which) -}}
{{- end -}}
{{- range $name := list "loadBalancerClass" "loadBalancerIP" "loadBalancerSourceRanges" -}}
{{- if and (get $given $name) (ne $given.type "LoadBalancer") -}}
{{- fail (printf "\n\n%s.%s needs %s.type=LoadBalancer.\n" $which $name $which) -}}
{{- end -}}
{{- end -}}
{{- if and $given.externalTrafficPolicy (eq $given.type "ClusterIP") -}}
{{- fail (printf "\n\n%s.externalTrafficPolicy needs %s.type=NodePort or LoadBalancer.\n" $which $which) -}}
{{- end -}}
{{- end -}}
{{- $leaders := include "milepost.labelsLeader" . -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) -}}
{{- fail "\n\nFor which names is the Ingress? Set ingress.hosts.\n" -}}
{{- end -}}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) -}}
{{- fail "\n\nBehind which Gateway is the HTTPRoute? Set httpRoute.parentRefs.\n" -}}
{{- end -}}
{{- if and .Values.httpRoute.backendCa.configMap (not (include "milepost.tlsSecret" .)) -}}
{{- fail "\n\nhttpRoute.backendCa needs tls.existingSecret or tls.certManager: without TLS there is no certificate to check.\n" -}}
{{- end -}}
{{- range $which, $enabled := dict "ingress" .Values.ingress.enabled "httpRoute" .Values.httpRoute.enabled -}}
{{- if and $enabled (not $leaders) -}}
{{- fail (printf "\n\n%s leads to the leader's Service, since who comes from outside cannot be sent on to a Pod: it needs pointers.kind=kubernetes and leaderService.enabled=true.\n" $which) -}}
{{- end -}}
{{- if and $enabled (include "milepost.demandsCertificates" $) -}}
{{- fail (printf "\n\n%s and tls.clientCa exclude each other: a gateway that ends TLS cannot show the certificates of its clients. Use a Service that passes connections on as they are.\n" $which) -}}
{{- end -}}
{{- end -}}
{{- if .Values.networkPolicy.enabled -}}
{{- $addresses := false -}}
{{- range .Values.networkPolicy.clients -}}
{{- if hasKey . "ipBlock" -}}{{- $addresses = true -}}{{- end -}}
{{- end -}}
{{- $types := dict "service" .Values.service.type -}}
{{- if $leaders -}}
{{- $_ := set $types "leaderService" .Values.leaderService.type -}}
{{- end -}}
{{- range $which, $type := $types -}}
{{- if and (ne $type "ClusterIP") (not $addresses) -}}
{{- fail (printf "\n\n%s.type=%s lets in who comes from outside of the cluster, and networkPolicy.clients lets in Pods alone: add the addresses that may come,\n  {ipBlock: {cidr: 10.0.0.0/8}}\nor set networkPolicy.enabled=false.\n" $which $type) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "milepost.checkMetrics" -}}
{{- $metrics := .Values.metrics -}}
{{- if and $metrics.serviceMonitor.enabled $metrics.podMonitor.enabled -}}
{{- fail "\n\nmetrics.serviceMonitor and metrics.podMonitor exclude each other: each replica would be collected twice.\n" -}}
{{- end -}}
{{- if and $metrics.prometheusRule.enabled (not $metrics.serviceMonitor.enabled) (not $metrics.podMonitor.enabled) -}}
{{- fail "\n\nmetrics.prometheusRule needs metrics.serviceMonitor.enabled=true or metrics.podMonitor.enabled=true: its alerts ask for what that one has collected, and without it they fire for ever.\n" -}}
{{- end -}}
{{- range $which, $monitor := dict "serviceMonitor" $metrics.serviceMonitor "podMonitor" $metrics.podMonitor -}}
{{- $elsewhere := and $monitor.namespace (ne $monitor.namespace $.Release.Namespace) -}}
{{- if and $monitor.enabled $elsewhere (include "milepost.tlsSecret" $) $.Values.tls.caKey (not $metrics.tlsConfig) -}}
{{- fail (printf "\n\nmetrics.%s.namespace=%s: Prometheus reads authorities from there, and the chart's are in a Secret here. Set metrics.tlsConfig.\n" $which $monitor.namespace) -}}
{{- end -}}
{{- end -}}
{{- end -}}
