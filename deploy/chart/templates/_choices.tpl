{{/* What a schema cannot say, or not so that a newcomer would understand it. Included once, by the Deployment. */}}
{{- define "milepost.checkChoices" -}}
{{- if not .Values.enabled -}}
{{- fail "\n\nenabled=false is for a chart that depends on this one: there, `condition: milepost.enabled` leaves it out.\n" -}}
{{- end -}}
{{- $auth := .Values.auth -}}
{{- $certificates := include "milepost.demandsCertificates" . -}}
{{- if not (or $auth.existingSecret $auth.insecure $certificates) -}}
{{- fail (printf "\n\nHow do clients show who they are? Make a Secret of tokens and name it:\n  kubectl -n %s create secret generic milepost-tokens --from-literal=tokens=\"driver $(openssl rand -hex 32)\"\n  --set auth.existingSecret=milepost-tokens\nor take certificates: --set tls.clientCa.existingSecret=…\nor serve everybody who reaches the port: --set auth.insecure=true\n" .Release.Namespace) -}}
{{- end -}}
{{- if and $auth.insecure (or $auth.existingSecret $certificates) -}}
{{- fail "\n\nauth.insecure and auth.existingSecret or tls.clientCa exclude each other.\n" -}}
{{- end -}}
{{- include "milepost.checkTls" . -}}
{{- include "milepost.checkWaysIn" . -}}
{{- include "milepost.checkMetrics" . -}}
{{- include "milepost.checkCells" . -}}
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
{{- $name := include "milepost.releaseName" . -}}
{{- if or (gt (len $name) 40) (not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name)) -}}
{{- fail (printf "\n\n%s is no name for Services and Leases: set fullnameOverride to at most 40 of a-z, 0-9 and -, a letter first.\n" $name) -}}
{{- end -}}
{{- $least := .Values.podDisruptionBudget.minAvailable -}}
{{- if and .Values.podDisruptionBudget.enabled (not (kindIs "invalid" $least)) (not (kindIs "string" $least)) (ge (int $least) (int .Values.replicas)) -}}
{{- fail (printf "\n\npodDisruptionBudget.minAvailable=%d of %d replicas lets no node be emptied: leave out one at least.\n" (int $least) (int .Values.replicas)) -}}
{{- end -}}
{{- if le (int .Values.terminationGracePeriodSeconds) (add 30 (int .Values.preStopSeconds)) -}}
{{- fail "\n\nterminationGracePeriodSeconds must exceed preStopSeconds by more than 30: 10 s for writes on their way, 10 for connections, 10 for the rest.\n" -}}
{{- end -}}
{{- end -}}
