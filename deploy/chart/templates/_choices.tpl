{{/* What a schema cannot say, or not so that a newcomer would understand it. Included once, by the Deployment. */}}
{{- define "milepost.checkChoices" -}}
{{- $auth := .Values.auth -}}
{{- if and (not $auth.existingSecret) (not $auth.insecure) -}}
{{- fail (printf "\n\nHow do clients show who they are? Make a Secret of tokens and name it:\n  kubectl -n %s create secret generic milepost-tokens --from-literal=tokens=\"driver $(openssl rand -hex 32)\"\n  --set auth.existingSecret=milepost-tokens\nor serve everybody who reaches the port: --set auth.insecure=true\n" .Release.Namespace) -}}
{{- end -}}
{{- if and $auth.existingSecret $auth.insecure -}}
{{- fail "\n\nauth.existingSecret and auth.insecure exclude each other.\n" -}}
{{- end -}}
{{- if and (eq .Values.pointers.kind "zookeeper") (not .Values.pointers.zookeeper.hosts) -}}
{{- fail "\n\nWhere is ZooKeeper? Set pointers.zookeeper.hosts, for instance to [\"zk-0.zk:2181\"].\n" -}}
{{- end -}}
{{- with .Values.pointers.zookeeper.tls -}}
{{- if and .clientCertificate (not .existingSecret) -}}
{{- fail "\n\npointers.zookeeper.tls.clientCertificate needs pointers.zookeeper.tls.existingSecret, which holds it.\n" -}}
{{- end -}}
{{- end -}}
{{- with .Values.pointers.kubernetes -}}
{{- if not (and (gt (float64 .leaseDuration) (float64 .renewDeadline)) (gt (float64 .renewDeadline) (float64 .retryPeriod))) -}}
{{- fail "\n\npointers.kubernetes: leaseDuration must be longer than renewDeadline, and that longer than retryPeriod.\n" -}}
{{- end -}}
{{- end -}}
{{- if and (eq .Values.blobs.kind "s3") (not .Values.blobs.s3.bucket) -}}
{{- fail "\n\nWhere do states go? Set blobs.s3.bucket, or blobs.kind=hdfs and blobs.hdfs.authority.\n" -}}
{{- end -}}
{{- if and (eq .Values.blobs.kind "hdfs") (not .Values.blobs.hdfs.authority) (not (include "milepost.hadoopConfigMap" .)) -}}
{{- fail "\n\nWhere is HDFS? Set blobs.hdfs.authority to namenode:8020, or give blobs.hdfs.configuration or blobs.hdfs.existingConfigMap.\n" -}}
{{- end -}}
{{- if and .Values.blobs.hdfs.configuration .Values.blobs.hdfs.existingConfigMap -}}
{{- fail "\n\nblobs.hdfs.configuration and blobs.hdfs.existingConfigMap exclude each other.\n" -}}
{{- end -}}
{{- if .Values.networkPolicy.enabled -}}
{{- $addresses := false -}}
{{- range .Values.networkPolicy.clients -}}
{{- if hasKey . "ipBlock" -}}{{- $addresses = true -}}{{- end -}}
{{- end -}}
{{- $types := dict "service" .Values.service.type -}}
{{- if include "milepost.labelsLeader" . -}}
{{- $_ := set $types "leaderService" .Values.leaderService.type -}}
{{- end -}}
{{- range $which, $type := $types -}}
{{- if and (ne $type "ClusterIP") (not $addresses) -}}
{{- fail (printf "\n\n%s.type=%s lets in who comes from outside of the cluster, and networkPolicy.clients lets in Pods alone: add the addresses that may come,\n  {ipBlock: {cidr: 10.0.0.0/8}}\nor set networkPolicy.enabled=false.\n" $which $type) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.metrics.prometheusRule.enabled (not .Values.metrics.serviceMonitor.enabled) -}}
{{- fail "\n\nmetrics.prometheusRule needs metrics.serviceMonitor.enabled=true: its alerts ask for what that one has collected, and without it they fire for ever.\n" -}}
{{- end -}}
{{- $name := include "milepost.fullname" . -}}
{{- if or (gt (len $name) 40) (not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name)) -}}
{{- fail (printf "\n\n%s is no name for Services and Leases: set fullnameOverride to at most 40 of a-z, 0-9 and -, a letter first.\n" $name) -}}
{{- end -}}
{{- if le (int .Values.terminationGracePeriodSeconds) (add 30 (int .Values.preStopSeconds)) -}}
{{- fail "\n\nterminationGracePeriodSeconds must exceed preStopSeconds by more than 30: 10 s for writes on their way, 10 for connections, 10 for the rest.\n" -}}
{{- end -}}
{{- end -}}
