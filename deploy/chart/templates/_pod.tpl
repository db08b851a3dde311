{{/* Parts of the replicas' Pod, each where one can look at it alone. */}}

{{/* What a server reads at its start and a Pod's own text does not show. A change restarts the replicas in turn. */}}
{{- define "milepost.checksums" -}}
{{- $namespace := .Release.Namespace -}}
{{- $secrets := list -}}
{{- $secrets = append $secrets .Values.auth.existingSecret -}}
{{- if eq .Values.pointers.kind "zookeeper" -}}
{{- $secrets = append $secrets .Values.pointers.zookeeper.existingSecret -}}
{{- $secrets = append $secrets .Values.pointers.zookeeper.tls.existingSecret -}}
{{- end -}}
{{- if eq .Values.blobs.kind "s3" -}}
{{- $secrets = append $secrets .Values.blobs.s3.existingSecret -}}
{{- end -}}
{{- $digests := list -}}
{{- range $secrets | compact | uniq -}}
{{- $digests = append $digests (include "milepost.digestOf" (dict "kind" "Secret" "namespace" $namespace "name" .)) -}}
{{- end -}}
checksum/secrets: {{ $digests | toJson | sha256sum }}
{{- if eq .Values.blobs.kind "hdfs" }}
{{- with .Values.blobs.hdfs }}
{{- $digest := "" }}
{{- if .existingConfigMap }}
{{- $digest = include "milepost.digestOf" (dict "kind" "ConfigMap" "namespace" $namespace "name" .existingConfigMap) }}
{{- end }}
checksum/hadoop: {{ list .configuration $digest | toJson | sha256sum }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Names by which the Services are asked. Without tokens the server answers to no others, for the sake of browsers. */}}
{{- define "milepost.hosts" -}}
{{- $hosts := list -}}
{{- range $service := list (include "milepost.fullname" .) (printf "%s-leader" (include "milepost.fullname" .)) -}}
{{- range $domain := list "" (printf ".%s" $.Release.Namespace) (printf ".%s.svc" $.Release.Namespace) (printf ".%s.svc.cluster.local" $.Release.Namespace) -}}
{{- $hosts = append $hosts (printf "%s%s" $service $domain) -}}
{{- end -}}
{{- end -}}
{{- join "," (concat $hosts .Values.auth.hosts) -}}
{{- end -}}

{{- define "milepost.environment" -}}
- name: POD_IP
  valueFrom:
    fieldRef:
      fieldPath: status.podIP
{{- if include "milepost.labelsLeader" . }}
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
{{- end }}
{{- if eq .Values.ipFamily "IPv6" }}
- name: MILEPOST_LISTEN
  value: "[::]:7070"
- name: MILEPOST_ADVERTISE
  value: http://[$(POD_IP)]:7070
{{- else }}
- name: MILEPOST_LISTEN
  value: 0.0.0.0:7070
- name: MILEPOST_ADVERTISE
  value: http://$(POD_IP):7070
{{- end }}
- name: MILEPOST_POINTERS
  value: {{ include "milepost.pointersUrl" . | quote }}
- name: MILEPOST_BLOBS
  value: {{ include "milepost.blobsUrl" . | quote }}
{{- if .Values.auth.insecure }}
- name: MILEPOST_INSECURE
  value: "true"
- name: MILEPOST_HOSTS
  value: {{ include "milepost.hosts" . | quote }}
{{- else }}
- name: MILEPOST_TOKEN_FILE
  value: /etc/milepost/auth/tokens
{{- end }}
{{- with .Values.server }}
- name: MILEPOST_LINGER
  value: {{ .linger | quote }}
- name: MILEPOST_COLLECT_AFTER
  value: {{ .collectAfter | quote }}
{{- if .maxStateBytes }}
- name: MILEPOST_MAX_STATE_BYTES
  value: {{ int64 .maxStateBytes | quote }}
{{- end }}
{{- if kindIs "invalid" .inlineBelow }}
{{- if eq $.Values.pointers.kind "kubernetes" }}
- name: MILEPOST_INLINE_BELOW
  value: "512"
{{- end }}
{{- else }}
- name: MILEPOST_INLINE_BELOW
  value: {{ int64 .inlineBelow | quote }}
{{- end }}
{{- if .epochsAbove }}
- name: MILEPOST_EPOCHS_ABOVE
  value: {{ int64 .epochsAbove | quote }}
{{- end }}
- name: MILEPOST_LOG_LEVEL
  value: {{ .logLevel }}
{{- end }}
{{- if eq .Values.blobs.kind "s3" }}
{{- with .Values.blobs.s3.existingSecret }}
{{- $secret := . }}
{{- range $key := list "AWS_ACCESS_KEY_ID" "AWS_SECRET_ACCESS_KEY" "AWS_SESSION_TOKEN" }}
- name: {{ $key }}
  valueFrom:
    secretKeyRef:
      name: {{ $secret }}
      key: {{ $key }}
      {{- if eq $key "AWS_SESSION_TOKEN" }}
      optional: true
      {{- end }}
{{- end }}
{{- end }}
{{- else }}
{{- if include "milepost.hadoopConfigMap" . }}
- name: HADOOP_CONF_DIR
  value: /etc/milepost/hadoop
{{- end }}
{{- with .Values.blobs.hdfs.user }}
- name: HADOOP_USER_NAME
  value: {{ . | quote }}
{{- end }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Started: it reached all that it stands on, once. Ready: it leads or knows who does. What they stand on is not asked
     again, for all replicas share it: to take every one of them out of the Services would help nobody, and while states
     are away, handles, locks and epochs go on. No leader is known while a lease runs out: that makes nobody unready. */}}
{{- define "milepost.probes" -}}
{{- $lease := include "milepost.leaseSeconds" . | float64 -}}
startupProbe:
  httpGet:
    path: /readyz
    port: http
  periodSeconds: 2
  timeoutSeconds: 7
  failureThreshold: 300
readinessProbe:
  httpGet:
    path: /readyz?exclude=pointers&exclude=blobs
    port: http
  periodSeconds: 5
  timeoutSeconds: 3
  failureThreshold: {{ add 3 (div (ceil $lease) 5) | max 6 }}
livenessProbe:
  httpGet:
    path: /livez
    port: http
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
{{- end -}}

{{- define "milepost.mounts" -}}
{{- if .Values.auth.existingSecret }}
- name: auth
  mountPath: /etc/milepost/auth
  readOnly: true
{{- end }}
{{- if eq .Values.pointers.kind "zookeeper" }}
{{- if .Values.pointers.zookeeper.existingSecret }}
- name: zookeeper
  mountPath: /etc/milepost/zookeeper
  readOnly: true
{{- end }}
{{- with .Values.pointers.zookeeper.tls }}
{{- if and .enabled .existingSecret }}
- name: zookeeper-tls
  mountPath: /etc/milepost/zookeeper-tls
  readOnly: true
{{- end }}
{{- end }}
{{- end }}
{{- if and (eq .Values.blobs.kind "hdfs") (include "milepost.hadoopConfigMap" .) }}
- name: hadoop
  mountPath: /etc/milepost/hadoop
  readOnly: true
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "milepost.volumes" -}}
{{- if .Values.auth.existingSecret }}
- name: auth
  secret:
    secretName: {{ .Values.auth.existingSecret }}
    defaultMode: 0440
    items:
      - key: {{ .Values.auth.key }}
        path: tokens
{{- end }}
{{- if eq .Values.pointers.kind "zookeeper" }}
{{- with .Values.pointers.zookeeper.existingSecret }}
- name: zookeeper
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- with .Values.pointers.zookeeper.tls }}
{{- if and .enabled .existingSecret }}
- name: zookeeper-tls
  secret:
    secretName: {{ .existingSecret }}
    defaultMode: 0440
{{- end }}
{{- end }}
{{- end }}
{{- if eq .Values.blobs.kind "hdfs" }}
{{- with include "milepost.hadoopConfigMap" . }}
- name: hadoop
  configMap:
    name: {{ . }}
{{- end }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}
