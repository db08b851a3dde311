{{- define "milepost.name" -}}
{{- .Values.nameOverride | default .Chart.Name -}}
{{- end -}}

{{/* Names what the release has once, and begins the names of all the rest. Never cut off: two releases whose names began
     alike would share their pointers. */}}
{{- define "milepost.releaseName" -}}
{{- $name := include "milepost.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name -}}
{{- end -}}
{{- end -}}

{{/* Names all objects of a deployment; with pointers in Kubernetes also the Lease and the ConfigMaps of the pointers. */}}
{{- define "milepost.fullname" -}}
{{- include "milepost.releaseName" . }}{{ include "milepost.cellSuffix" . -}}
{{- end -}}

{{/* Of objects that stand in no namespace: neither part can have a dot, so no two releases have the same. */}}
{{- define "milepost.clusterName" -}}
{{- printf "%s.%s" (include "milepost.fullname" .) .Release.Namespace -}}
{{- end -}}

{{/* The instance is the full name and not the release's: by it the election finds the Pods of its own deployment. */}}
{{- define "milepost.selectorLabels" -}}
app.kubernetes.io/name: {{ include "milepost.name" . }}
app.kubernetes.io/instance: {{ include "milepost.fullname" . }}
{{- end -}}

{{- define "milepost.replicaLabels" -}}
{{ include "milepost.selectorLabels" . }}
app.kubernetes.io/component: server
{{- end -}}

{{/* All labels of an object: (dict "top" . "component" "server" "labels" (dict …)). The chart's own win. */}}
{{- define "milepost.labels" -}}
{{- $top := .top -}}
{{- $labels := include "milepost.selectorLabels" $top | fromYaml -}}
{{- $_ := set $labels "helm.sh/chart" (printf "%s-%s" $top.Chart.Name $top.Chart.Version | replace "+" "_") -}}
{{- $_ := set $labels "app.kubernetes.io/version" $top.Chart.AppVersion -}}
{{- $_ := set $labels "app.kubernetes.io/managed-by" $top.Release.Service -}}
{{- with .component -}}{{- $_ := set $labels "app.kubernetes.io/component" . -}}{{- end -}}
{{- if hasKey $top "Cell" -}}
{{- with include "milepost.cellName" $top -}}{{- $_ := set $labels "milepost/cell" . -}}{{- end -}}
{{- end -}}
{{- merge $labels (.labels | default dict) $top.Values.commonLabels | toYaml -}}
{{- end -}}

{{/* The annotations of an object, or nothing: (dict "top" . "annotations" (dict …)). */}}
{{- define "milepost.annotations" -}}
{{- with merge dict (.annotations | default dict) .top.Values.commonAnnotations -}}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}

{{/* The metadata of an object: what both above take, and perhaps "suffix" behind the full name, another "name", or
     another "namespace". */}}
{{- define "milepost.metadata" -}}
name: {{ .name | default (printf "%s%s" (include "milepost.fullname" .top) (.suffix | default "")) }}
namespace: {{ .namespace | default .top.Release.Namespace }}
labels:
  {{- include "milepost.labels" . | nindent 2 }}
{{- with include "milepost.annotations" . }}
{{ . }}
{{- end }}
{{- end -}}

{{/* That of an object that stands in no namespace: (dict "top" .). */}}
{{- define "milepost.clusterMetadata" -}}
name: {{ include "milepost.clusterName" .top }}
labels:
  {{- include "milepost.labels" . | nindent 2 }}
{{- with include "milepost.annotations" . }}
{{ . }}
{{- end }}
{{- end -}}

{{/* Each cell has its own, for each may write its own ConfigMaps alone. */}}
{{- define "milepost.serviceAccount" -}}
{{- if .Values.serviceAccount.name -}}
{{- .Values.serviceAccount.name }}{{ include "milepost.cellSuffix" . -}}
{{- else -}}
{{- ternary (include "milepost.fullname" .) "default" .Values.serviceAccount.create -}}
{{- end -}}
{{- end -}}

{{- define "milepost.image" -}}
{{- $registry := .Values.image.registry | default ((.Values.global).imageRegistry) -}}
{{- with .Values.image -}}
{{- $repository := ternary (printf "%s/%s" $registry .repository) .repository (not (empty $registry)) -}}
{{- if .digest -}}
{{- printf "%s@%s" $repository .digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (.tag | default $.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* imagePullSecrets of a Pod, or nothing; those that a parent chart gives to all come as well, by name alone or not. */}}
{{- define "milepost.pullSecrets" -}}
{{- $found := list -}}
{{- range concat (((.Values.global).imagePullSecrets) | default list) .Values.imagePullSecrets -}}
{{- $found = append $found (ternary (dict "name" .) . (kindIs "string" .)) -}}
{{- end -}}
{{- with $found | uniq -}}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}

{{- define "milepost.hadoopConfigMap" -}}
{{- with .Values.blobs.hdfs -}}
{{- if .existingConfigMap -}}
{{- .existingConfigMap -}}
{{- else if .configuration -}}
{{- include "milepost.releaseName" $ }}-hadoop
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Whether there is a Service of the leader alone: "true" or nothing. */}}
{{- define "milepost.labelsLeader" -}}
{{- if and .Values.leaderService.enabled (eq .Values.pointers.kind "kubernetes") -}}true{{- end -}}
{{- end -}}

{{/* Whether replicas ask the API server: "true" or nothing. */}}
{{- define "milepost.asksKubernetes" -}}
{{- if or (eq .Values.pointers.kind "kubernetes") .Values.auth.serviceAccounts.audience -}}true{{- end -}}
{{- end -}}

{{/* Seconds until another replica takes over from a leader that died without a word. */}}
{{- define "milepost.leaseSeconds" -}}
{{- if eq .Values.pointers.kind "kubernetes" -}}
{{- .Values.pointers.kubernetes.leaseDuration -}}
{{- else -}}
{{- .Values.pointers.zookeeper.sessionTimeout -}}
{{- end -}}
{{- end -}}

{{/* A digest of a Secret or ConfigMap that somebody else made, where the cluster can be asked: `helm template` cannot. */}}
{{- define "milepost.digestOf" -}}
{{- $found := lookup "v1" .kind .namespace .name -}}
{{- if $found -}}{{- $found.data | toJson | sha256sum -}}{{- end -}}
{{- end -}}
